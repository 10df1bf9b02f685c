"""The slice of Supabase Auth that Runyard uses."""
