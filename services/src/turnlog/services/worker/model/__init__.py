"""The one room that speaks to language models.

`exchange` says what goes in and what comes out, `failures` what can go wrong; `litellm_model`
answers through litellm, which nothing else imports. The rest is pure: retries, estimates
and the readers of what litellm hands back.
"""
