"""A Supabase project, checked from outside."""
