"""What assistants of people may use: tools that look, explain and propose, over MCP.

No tool acts: what one may do is in `catalogue`, and this package imports nothing that moves a
message, approves a plan or reveals a body.
"""
