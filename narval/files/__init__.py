"""The files of a home, parsed: settings, schemas, modules, definitions, memory.xml."""
