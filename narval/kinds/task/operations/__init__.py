"""Operations on tasks: put objects, work as a task, raise events, and ask about all of these."""
