"""Operations on what needs attention: incidents, upcoming moments, missed moments."""
