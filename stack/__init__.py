"""The embedded Supabase: PostgreSQL, REST, Auth, Realtime and Functions behind one port."""
