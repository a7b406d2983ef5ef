"""Operations on tasks: put objects, work as a task, raise events, and query all of these."""
