"""Operations on chats: the program that holds the connections asks them, and `narval chats`."""
