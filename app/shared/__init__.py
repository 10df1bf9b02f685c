"""What every page uses: the frame around it, elements, badges, feedback, and who looks."""
