"""Programs of the operating system: started, fed, read, and ended with all their groups (A2, A4, A12-A14).

`place.py` answers calls of programs, `group.py` is one of them under way, `spawning.py` starts it,
`output.py` keeps what it prints, `files.py` says whether there is anything to do, `keeper.py` is the tiny
program that ends them all when the daemon is gone, and `keeping.py` the daemon's side of it.
"""
