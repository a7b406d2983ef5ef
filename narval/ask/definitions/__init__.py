"""Operations on definitions: list the loaded ones, and show one."""
