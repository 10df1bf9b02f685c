"""What a program that acts for a member may do: look and plan."""
