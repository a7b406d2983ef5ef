"""Operations on tasks: objects are put, programs work as tasks, events are raised; and what is asked of all
that.
"""
