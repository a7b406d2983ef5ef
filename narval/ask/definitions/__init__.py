"""Operations on definitions: loaded ones, their versions and grants, the files edited, and proposals."""
