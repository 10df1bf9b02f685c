"""Who is signed in: sessions on the server, an opaque cookie in the browser."""
