"""Figures: how long jobs wait, how busy runners are, and how jobs end."""
