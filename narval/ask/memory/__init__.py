"""Operations on memory: add, outdate, list, count and explain elements."""
