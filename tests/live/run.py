#!/usr/bin/env python3
"""run.py N [PORT]: start style N (1 to 11) on PORT of 127.0.0.1 (default 900N; 0 = a free one) and print its address
once it listens; `run.py all` starts all."""
import importlib, sys, threading, time
MODS = {1: "s1_resend", 2: "s2_jsonapi", 3: "s3_google", 4: "s4_laravel", 5: "s5_aws", 6: "s6_go", 7: "s7_django", 8: "s8_soapteam",
        9: "s9_chat", 10: "s10_hydra", 11: "s11_mailjet"}
import core

if len(sys.argv) < 2 or not (sys.argv[1] == "all" or sys.argv[1].isdigit() and int(sys.argv[1]) in MODS):
    sys.exit(__doc__)
if sys.argv[1] == "all":
    for n, m in MODS.items():
        threading.Thread(target=core.serve, args=(importlib.import_module(m).S(), 9000 + n), daemon=True).start()
    while True:
        time.sleep(1e6)
n = int(sys.argv[1])
core.serve(importlib.import_module(MODS[n]).S(), int(sys.argv[2]) if len(sys.argv) > 2 else 9000 + n)
