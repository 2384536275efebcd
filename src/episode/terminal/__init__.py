"""What people see: result tables and progress on the terminal."""
