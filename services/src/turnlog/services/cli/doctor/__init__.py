"""What this machine has to offer: checks that say what is missing before anything is started."""
