"""Operations on what needs somebody's attention: incidents, what is to come, what came late."""
