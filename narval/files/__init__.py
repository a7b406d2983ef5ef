"""The files of a home as read: settings, schemas, modules, definitions, memory.xml."""
