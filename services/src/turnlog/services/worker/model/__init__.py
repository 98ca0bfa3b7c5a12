"""The one package that calls language models.

`model_types` defines requests, answers and failures. `litellm_model` answers through litellm, which
only `litellm_library` imports. The rest is pure: timeouts, estimates and the readers of what
litellm returns.
"""
