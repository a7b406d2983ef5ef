"""Operations on memory: add, outdate, list, count and explain elements, their origins and their labels."""
