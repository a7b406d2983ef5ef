"""Operations on chats, for the program that holds the connections."""
