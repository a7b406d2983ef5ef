"""Operations on the daemon itself and its agents: status, stop, log; and its work as `narval run` does it."""
