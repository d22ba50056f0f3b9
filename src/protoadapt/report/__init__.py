"""Tables and pictures. Reads result JSON only."""
