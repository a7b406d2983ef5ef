"""Operations on definitions: the list of those loaded, and the details of one."""
