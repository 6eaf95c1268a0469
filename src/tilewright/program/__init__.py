"""The lowered program: tasks that know their engine, tensors that know their memory."""
