"""Jobs and tasks."""
