"""The embedded Realtime server: Supabase's websocket protocol over one PostgreSQL."""
