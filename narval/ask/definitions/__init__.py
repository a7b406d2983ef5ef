"""Operations on definitions: those that are loaded, and what is known of one."""
