"""What tests share: small projects in temporary folders, and the frames and files that they take."""
