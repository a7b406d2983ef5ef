"""Operations on memory: elements are added, outdated, listed, counted and explained."""
