"""Operations on what needs attention: incidents, moments to come, moments that came late."""
