import sys, time, collections
sys.path.insert(0,"benchmarks")
import torch
import overhead as o
from overhead import *
from sigmascope.measure import running, accumulating, subject as subj, batches as bt
from sigmascope.capture import pooled, recorder, guard
T=collections.defaultdict(float); N=collections.Counter()
def wrap(obj,name,label=None):
    f=getattr(obj,name); label=label or name
    def g(*a,**k):
        s=time.perf_counter()
        try: return f(*a,**k)
        finally: T[label]+=time.perf_counter()-s; N[label]+=1
    setattr(obj,name,g)
def wrapcm(obj,name):
    f=getattr(obj,name)
    class C:
        def __init__(s,*a,**k): s.c=f(*a,**k)
        def __enter__(s):
            t=time.perf_counter(); r=s.c.__enter__(); T[name+".enter"]+=time.perf_counter()-t; N[name+".enter"]+=1; return r
        def __exit__(s,*a):
            t=time.perf_counter(); r=s.c.__exit__(*a); T[name+".exit"]+=time.perf_counter()-t; N[name+".exit"]+=1; return r
    setattr(obj,name,lambda *a,**k: C(*a,**k))
DETAIL = "-d" in sys.argv
names=[n for n in sys.argv[1:] if n!="-d"]
dev="cuda" if torch.cuda.is_available() else "cpu"
def host(call):
    synchronize(); t=time.perf_counter(); call(); h=time.perf_counter()-t; synchronize(); return 1e3*h,1e3*(time.perf_counter()-t)
images=[photographs(512 if dev=="cuda" else 4, seed=s, device=dev) for s in range(4)]
ready=[]
for name in names:
    net,size=NETWORKS[name]
    model=calibrated(net, images[0][:64])
    model,b=in_mode("bfloat16" if dev=="cuda" else "float32",model,images)
    for _ in range(2): forward(model,b)
    for _ in range(2): accumulate(model,b,"population")
    print(name,"forward", *["%.1f/%.1f"%host(lambda: forward(model,b)) for _ in range(5)])
    print(name,"accum", *["%.1f/%.1f"%host(lambda: accumulate(model,b,"population")) for _ in range(5)])
    ready.append((name,model,b))
wrap(o,"subject_of"); wrapcm(o,"preserve_state"); wrapcm(running,"capturing")
wrap(running,"to_model"); wrap(running.Run,"_readings"); wrap(running.Run,"_fetch_digests"); wrap(running.Run,"_calls"); wrap(running.Run,"over"); wrap(running.Run,"_batch")
wrap(accumulating.PopulationSums,"add","sums.add"); wrapcm(running,"randomness_kept"); wrap(pooled.Capture,"run"); wrap(torch,"manual_seed")
if DETAIL:
    wrap(recorder.Recorder,"_note"); wrap(pooled.Capture,"observe"); wrap(pooled.Capture,"_both"); wrap(pooled.Capture,"_matrix"); wrap(pooled.Capture,"_site")
    wrap(recorder.Recorder,"_enter"); wrap(recorder.Recorder,"_leave"); wrap(recorder.Recorder,"_begin"); wrap(recorder,"_Entered")
for name,model,b in ready:
    T.clear(); N.clear()
    for _ in range(5): accumulate(model,b,"population")
    print(name, "sections, ms per accumulate:")
    for k,v in sorted(T.items(), key=lambda kv:-kv[1]): print(f"   {k:25s} {1e3*v/5:8.2f}  x{N[k]//5}")
