"""What a log is made of on its way to the browser: safe text and a few class names."""
