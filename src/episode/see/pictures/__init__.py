"""Pictures: of matches (`looking.look` is what they show, as data; `plotting.plot` draws it), and of plans."""
