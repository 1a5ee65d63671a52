"""What the functions behind the HTTP API share: who calls, and how a refusal looks. No third-party package."""
