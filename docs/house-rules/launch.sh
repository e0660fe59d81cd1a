torchrun --nproc_per_node 8 run_clm.py --model_name_or_path gpt2 --do_train --bf16 --deepspeed ds.json --output_dir out
