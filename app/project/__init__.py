"""The tower that talks to the Supabase project; knows no Reflex."""
