"""Programs of the operating system: started, fed, read, and ended with their whole groups (A2, A4,
A12-A14).
"""
