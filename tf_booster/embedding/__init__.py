"""Hash tables as users see them: making one, looking ids up in it, feature columns on it."""
