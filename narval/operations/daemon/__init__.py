"""Operations on the daemon itself: its status, its stop, its log; and its work as `narval run` does it."""
