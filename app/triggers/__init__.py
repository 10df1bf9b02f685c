"""What starts by itself and whom it tells: schedules, sets of jobs, notifications, updates by policy."""
