"""Operations on chats, which the program that holds the connections asks."""
