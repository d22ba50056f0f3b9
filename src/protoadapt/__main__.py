from protoadapt.cli import main

main()
