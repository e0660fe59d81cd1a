"""Manifests of Kubernetes: what their scripts start, in which environment, on which machines."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dtlint import check
from dtlint.report.files import files_text
from dtlint.runs import Options, Run, RunSet, read_runs
from dtlint.value import Unknown, Value

POD = """\
spec:
  nodeSelector: {cloud.google.com/gke-accelerator: nvidia-h100-80gb}
  containers:
    - name: pytorch
      image: nvcr.io/nvidia/pytorch:24.05-py3
      command: %s
      resources: {limits: {nvidia.com/gpu: 8}}
"""


def pod(command: str, depth: int) -> str:
    return indent(POD % command, " " * depth)


def pytorch_job(command: str, workers: int = 3, spec: str = "") -> str:
    return (
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: tune}\nspec:\n"
        + indent(spec, "  ")
        + "  pytorchReplicaSpecs:\n    Master:\n      template:\n"
        + pod(command, 8)
        + f"    Worker:\n      replicas: {workers}\n      template:\n"
        + pod(command, 8)
    )


def runs_in(folder: Path, text: str, options: Options | None = None, name: str = "job.yaml", **files: str) -> RunSet:
    (folder / name).write_text(dedent(text), encoding="utf-8")
    for other, content in files.items():
        (folder / other.replace("__", ".")).write_text(dedent(content), encoding="utf-8")
    return read_runs([folder / name], options or Options())


def run_in(folder: Path, text: str, options: Options | None = None, **files: str) -> Run:
    (run,) = runs_in(folder, text, options, **files).runs
    return run


def told(run: Run, *settings: str) -> tuple[object, ...]:
    return tuple(run.plan.value(setting) for setting in settings)


MACHINES = ("cluster.nodes", "cluster.gpus_per_node", "cluster.gpu")
LAUNCH = ("launch.launcher", "launch.nodes", "launch.processes_per_node", "launch.processes")


class TestPyTorchJob:
    def test_a_master_and_its_workers_are_the_machines(self, tmp_path: Path) -> None:
        run = run_in(tmp_path, pytorch_job("[torchrun, train.py]"))
        assert told(run, *MACHINES) == (4, 8, "H100-SXM-80GB")

    def test_torchrun_takes_the_rest_from_what_the_operator_sets(self, tmp_path: Path) -> None:
        """PET_NNODES is the number of pods, PET_NPROC_PER_NODE is auto: one process for each of the 8 GPUs."""
        run = run_in(tmp_path, pytorch_job("[torchrun, train.py]"))
        assert told(run, *LAUNCH) == ("torchrun", 4, 8, 32)
        assert run.plan.value("launch.rendezvous_host") == "tune-master-0"

    def test_processes_of_a_pod_are_written(self, tmp_path: Path) -> None:
        run = run_in(tmp_path, pytorch_job("[torchrun, train.py]", 1, 'nprocPerNode: "4"\n'))
        assert told(run, *LAUNCH) == ("torchrun", 2, 4, 8)

    @pytest.mark.parametrize(
        ("command", "wrapped", "idle"),
        [
            ("[python, /workspace/train.py]", "DDP(net, device_ids=[local])", True),
            ("[python, train.py]", "DDP(net, device_ids=[local])", True),
            ("[torchrun, /workspace/train.py]", "DDP(net, device_ids=[local])", False),
            ("[python, /workspace/train.py]", "DDP(net)", False),
            ("[python, /workspace/other/more.py]", "DDP(net, device_ids=[local])", False),
            ("[python, /workspace/train.py]", "DDP(net, device_ids=[local])\nmp.spawn(main, nprocs=8)", False),
        ],
    )
    def test_plain_python_is_one_process_a_pod(self, tmp_path: Path, command: str, wrapped: str, idle: bool) -> None:
        """/workspace is where the image has the repository; a folder below it is another one."""
        program = f"""
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("nccl")
net = {wrapped}
net(1).backward()
"""
        runs_in(tmp_path, pytorch_job(command, 1), train__py=program)
        found = [each.message for each in check([tmp_path]).findings if each.rule == "idle-gpus"]
        kept = "plain python is 2 processes on 2 nodes, and the program keeps each to one GPU: 14 of 16 idle"
        assert found == ([kept] if idle else [])

    UNEQUAL = """\
        apiVersion: kubeflow.org/v1
        kind: PyTorchJob
        metadata: {{name: tune}}
        spec:
          {more}
          pytorchReplicaSpecs:
            Master:
              replicas: 1
              template: {{spec: {{containers: [{{name: pytorch, command: {command}, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]}}}}
            Worker:
              replicas: 2
              template: {{spec: {{containers: [{{name: pytorch, command: {command}, resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}}}]}}}}
        """

    @pytest.mark.parametrize(
        ("command", "gpus", "more", "idle"),
        [
            (
                "[python, train.py]",
                2,
                "",
                "plain python is 3 processes, one a pod, and the program keeps each to one GPU: 2 of 5 idle",
            ),
            ("[python, train.py]", 1, "", ""),
            ("[torchrun, train.py]", 2, "", ""),  # as many as each pod has
            (
                "[torchrun, train.py]",
                2,
                'nprocPerNode: "1"',
                "3 processes, 1 in each pod, on pods with 5 GPUs in all: 2 of 5 idle",
            ),
        ],
    )
    def test_pods_with_unequal_numbers_of_gpus(self, tmp_path: Path, command, gpus, more, idle) -> None:
        program = (
            "import torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
            "dist.init_process_group('nccl')\nnet = DDP(net, device_ids=[local])\nnet(1).backward()\n"
        )
        runs_in(tmp_path, self.UNEQUAL.format(command=command, gpus=gpus, more=more), train__py=program)
        found = [each.message for each in check([tmp_path]).findings if each.rule == "idle-gpus"]
        assert found == ([idle] if idle else [])

    def test_the_image_tells_the_release(self, tmp_path: Path) -> None:
        assert run_in(tmp_path, pytorch_job("[torchrun, train.py]")).plan.value("version.torch") == "2.4"

    def test_a_program_without_a_launcher_is_one_rank_of_each_pod(self, tmp_path: Path) -> None:
        run = run_in(tmp_path, pytorch_job("[python3, train.py]"))
        assert told(run, "launch.launcher", "launch.processes") == ("python", 4)

    def test_the_number_of_a_pod_is_not_known(self, tmp_path: Path) -> None:
        run = run_in(tmp_path, pytorch_job('[bash, -c, "torchrun --node_rank $RANK train.py"]'))
        rank = run.plan.get("launch.node_rank")
        assert isinstance(rank, Unknown) and rank.reason == "RANK is told when the job runs"

    def test_an_elastic_job_meets_at_its_first_worker(self, tmp_path: Path) -> None:
        text = """\
            apiVersion: kubeflow.org/v1
            kind: PyTorchJob
            metadata: {name: tune}
            spec:
              elasticPolicy: {minReplicas: 1, maxReplicas: 4, nProcPerNode: 2}
              pytorchReplicaSpecs:
                Worker:
                  replicas: 3
                  template:
                    spec:
                      containers: [{name: pytorch, command: [torchrun, train.py]}]
            """
        run = run_in(tmp_path, text)
        assert told(run, "launch.rendezvous", "launch.rendezvous_host") == ("c10d", "tune-worker-0")
        assert told(run, "launch.processes_per_node") == (2,)
        nodes = run.plan.setting("launch.nodes")
        assert isinstance(nodes, Unknown) and nodes.reason == "between 1 and 4 nodes join (elastic)"

    @pytest.mark.parametrize(
        ("policy", "processes"),
        [("{minReplicas: 1}", None), ("{minReplicas: 1, nProcPerNode: 4}", 4)],
    )
    def test_without_a_master_older_operators_do_not_hand_on_its_processes(
        self, tmp_path: Path, policy: str, processes: int | None
    ) -> None:
        text = f"""\
            apiVersion: kubeflow.org/v1
            kind: PyTorchJob
            metadata: {{name: tune}}
            spec:
              elasticPolicy: {policy}
              nprocPerNode: "4"
              pytorchReplicaSpecs:
                Worker:
                  replicas: 2
                  template:
                    spec:
                      containers:
                        - name: pytorch
                          command: [torchrun, train.py]
                          resources: {{limits: {{nvidia.com/gpu: 1}}}}
            """
        run = run_in(tmp_path, text)
        assert run.plan.value("launch.processes_per_node") == processes
        found = {finding.rule for finding in check([tmp_path]).findings}
        assert ("hostfile-slot-mismatch" in found) is (processes is not None)

    def test_what_the_program_says_stands_in_for_what_its_launcher_was_given(self, tmp_path: Path) -> None:
        """The trainer takes its processes from torchrun; that these are as many as its own devices is assumed."""
        text = """\
            apiVersion: kubeflow.org/v1
            kind: PyTorchJob
            metadata: {name: tune}
            spec:
              elasticPolicy: {minReplicas: 1}
              nprocPerNode: "4"
              pytorchReplicaSpecs:
                Worker:
                  replicas: 8
                  template:
                    spec:
                      containers:
                        - name: pytorch
                          command: [torchrun, pretrain.py, --config-path=conf, --config-name=small]
                          args: [++trainer.devices=4, ++trainer.num_nodes=2, ++model.micro_batch_size=2,
                                 ++model.tensor_model_parallel_size=1]
                          resources: {limits: {nvidia.com/gpu: 1}}
            """
        processes = run_in(tmp_path, text).plan.get("launch.processes_per_node")
        assert isinstance(processes, Value) and (processes.value, processes.origin.kind) == (4, "assumed")
        found = {finding.rule for finding in check([tmp_path / "job.yaml"]).findings}
        assert "hostfile-slot-mismatch" not in found

    @pytest.mark.parametrize(
        ("resource", "devices", "told"),
        [
            ("aws.amazon.com/neuron", None, False),
            ("aws.amazon.com/neurondevice", None, False),
            ("aws.amazon.com/neuroncore", 16, True),
            ("nvidia.com/gpu", 16, True),
        ],
    )
    def test_chips_of_several_devices_do_not_bound_the_processes(
        self, tmp_path: Path, resource: str, devices: int | None, told: bool
    ) -> None:
        job = pytorch_job("[torchrun, --nproc_per_node=32, train.py]").replace("nvidia.com/gpu: 8", f"{resource}: 16")
        run = run_in(tmp_path, job.replace("nodeSelector", "labels"))
        assert run.plan.value("cluster.gpus_per_node") in (devices, 32 if devices is None else devices)
        assert ("hostfile-slot-mismatch" in {finding.rule for finding in check([tmp_path]).findings}) is told

    def test_pods_that_follow_metrics_are_of_no_known_number(self, tmp_path: Path) -> None:
        policy = "elasticPolicy: {minReplicas: 1, maxReplicas: 9, metrics: [{type: Resource}]}\n"
        nodes = run_in(tmp_path, pytorch_job("[torchrun, train.py]", 1, policy)).plan.setting("cluster.nodes")
        assert isinstance(nodes, Unknown)
        assert nodes.reason == "the number of pods follows the metrics of the elastic policy"

    def test_more_machines_awaited_than_start(self, tmp_path: Path) -> None:
        (tmp_path / "job.yaml").write_text(
            pytorch_job('["torchrun", "--nnodes=5", "--nproc_per_node=8", "train.py"]'), encoding="utf-8"
        )
        found = [finding for finding in check([tmp_path]).findings if finding.rule == "nodes-mismatch"]
        assert [finding.message for finding in found] == [
            "5 machines are awaited and 4 start: the rendezvous waits until its timeout"
        ]

    def test_pods_without_a_number_yet(self, tmp_path: Path) -> None:
        run = run_in(tmp_path, pytorch_job("[torchrun, train.py]").replace("replicas: 3", "replicas: {{ .Values.n }}"))
        nodes = run.plan.get("cluster.nodes")
        assert isinstance(nodes, Unknown) and "{{ .Values.n }}" in nodes.reason


class TestPods:
    def test_a_script_in_a_block_is_read_where_it_stands(self, tmp_path: Path) -> None:
        script = "export NODES=4\ntorchrun --nnodes $NODES \\\n  --nproc_per_node 8 train.py\n"
        text = pytorch_job("[bash, -c]\n      args:\n        - |\n" + indent(script, " " * 10))
        nodes = run_in(tmp_path, text).plan.get("launch.nodes")
        assert isinstance(nodes, Value) and nodes.value == 4
        span = nodes.origin.span
        assert span is not None
        assert (span.original().source.line_text(span.original().line)).strip() == "export NODES=4"
        assert span.original().text == "4"

    def test_variables_of_the_container_are_set(self, tmp_path: Path) -> None:
        text = """\
            apiVersion: v1
            kind: Pod
            metadata: {name: tune}
            spec:
              containers:
                - name: main
                  env:
                    - {name: GPUS, value: "4"}
                    - {name: ALL, value: "$(GPUS)"}
                    - name: HOST
                      valueFrom: {fieldRef: {fieldPath: status.podIP}}
                  command: [bash, -c, "torchrun --nproc_per_node $ALL --master_addr $HOST train.py"]
                  resources: {limits: {nvidia.com/gpu: "4"}}
            """
        run = run_in(tmp_path, text)
        assert told(run, "launch.processes_per_node", "cluster.nodes", "cluster.gpus_per_node") == (4, 1, 4)
        host = run.plan.get("launch.rendezvous_host")
        assert isinstance(host, Unknown) and host.reason == "HOST is told by status.podIP"

    def test_a_reference_in_the_words_is_the_variables_value(self, tmp_path: Path) -> None:
        command = '[torchrun, "--nproc_per_node=$(GPUS)", train.py]\n      env: [{name: GPUS, value: "2"}]'
        assert told(run_in(tmp_path, pytorch_job(command)), "launch.processes_per_node") == (2,)

    def test_what_the_user_says_of_the_environment_counts_more(self, tmp_path: Path) -> None:
        command = '[bash, -c, "torchrun --nproc_per_node $GPUS train.py"]\n      env: [{name: GPUS, value: "2"}]'
        run = run_in(tmp_path, pytorch_job(command), Options(environment={"GPUS": "6"}))
        assert told(run, "launch.processes_per_node") == (6,)

    def test_a_dollar_where_no_shell_reads_it_waits_for_another_program(self, tmp_path: Path) -> None:
        run = run_in(tmp_path, pytorch_job('[torchrun, "--nproc_per_node=$GPUS", train.py]'))
        found = run.plan.setting("launch.processes_per_node")
        assert isinstance(found, Unknown)
        assert found.reason == "$GPUS stands where no shell reads it: another program fills it in"

    @pytest.mark.parametrize(
        ("selector", "card", "gpus"),
        [
            ("node.kubernetes.io/instance-type: p5.48xlarge", "H100-SXM-80GB", 8),
            ("nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB", "A100-SXM-80GB", 8),
            ("gpu.nvidia.com/class: H100_NVLINK_80GB", "H100-SXM-80GB", 8),
            ("cloud.google.com/gke-accelerator: nvidia-h100-mega-80gb", "H100-SXM-80GB", 8),
            ("cloud.google.com/gke-accelerator: nvidia-tesla-a100", "A100-SXM-40GB", 8),
            ("topology.kubernetes.io/zone: h100", None, 8),
        ],
    )
    def test_labels_of_the_node_name_the_card(self, tmp_path: Path, selector: str, card: str, gpus: int) -> None:
        text = pytorch_job("[torchrun, train.py]").replace(
            "cloud.google.com/gke-accelerator: nvidia-h100-80gb", selector
        )
        assert told(run_in(tmp_path, text), "cluster.gpu", "cluster.gpus_per_node") == (card, gpus)

    def test_an_affinity_with_one_value_names_the_card(self, tmp_path: Path) -> None:
        text = pytorch_job("[torchrun, train.py]").replace(
            "nodeSelector: {cloud.google.com/gke-accelerator: nvidia-h100-80gb}",
            "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
            "[{matchExpressions: [{key: gpu.nvidia.com/class, operator: In, values: [A40]}]}]}}}",
        )
        assert told(run_in(tmp_path, text), "cluster.gpu") == ("A40-48GB",)

    def test_a_script_and_a_config_in_a_config_map(self, tmp_path: Path) -> None:
        text = """\
            apiVersion: v1
            kind: ConfigMap
            metadata: {name: scripts}
            data:
              run.sh: |
                deepspeed --num_gpus 8 train.py --deepspeed_config /scripts/ds.json
              ds.json: |
                {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 3}}
            ---
            apiVersion: batch/v1
            kind: Job
            metadata: {name: tune}
            spec:
              template:
                spec:
                  containers:
                    - name: main
                      command: [bash, /scripts/run.sh]
                      volumeMounts: [{name: scripts, mountPath: /scripts}]
                  volumes: [{name: scripts, configMap: {name: scripts}}]
            """
        run = run_in(tmp_path, text)
        assert told(run, "sharding.stage", "batch.micro", "launch.launcher") == (3, 4, "deepspeed")
        stage = run.plan.stated("sharding.stage")
        assert stage is not None and stage.origin.span is not None and stage.origin.span.original().line == 8

    def test_files_of_the_tree_are_joined(self, tmp_path: Path) -> None:
        command = '[deepspeed, train.py, --deepspeed, "--deepspeed_config=ds.json"]'
        run = run_in(tmp_path, pytorch_job(command), ds__json='{"zero_optimization": {"stage": 2}}')
        assert told(run, "sharding.stage") == (2,)


class TestTrainJob:
    RUNTIME = """\
        apiVersion: trainer.kubeflow.org/v1alpha1
        kind: ClusterTrainingRuntime
        metadata: {name: torch-distributed}
        spec:
          mlPolicy: {numNodes: 2, torch: {}}
          template:
            spec:
              replicatedJobs:
                - name: node
                  template:
                    spec:
                      template:
                        spec:
                          nodeSelector: {nvidia.com/gpu.product: NVIDIA-H200}
                          containers:
                            - name: node
                              command: [torchrun, train.py]
                              resources: {limits: {nvidia.com/gpu: 4}}
        """
    JOB = """\
        apiVersion: trainer.kubeflow.org/v1alpha1
        kind: TrainJob
        metadata: {name: tune}
        spec:
          runtimeRef: {name: torch-distributed}
        """

    def test_the_runtime_of_the_tree_is_the_template(self, tmp_path: Path) -> None:
        run = run_in(tmp_path, self.JOB, runtime__yaml=self.RUNTIME)
        assert told(run, *MACHINES, *LAUNCH) == (2, 4, "H200-SXM-141GB", "torchrun", 2, 4, 8)

    def test_the_job_stands_over_its_runtime(self, tmp_path: Path) -> None:
        trainer = """\
          trainer:
            numNodes: 3
            numProcPerNode: 8
            resourcesPerNode: {limits: {nvidia.com/gpu: 8}}
            command: [bash, -c, torchrun other.py]
        """
        run = run_in(tmp_path, dedent(self.JOB) + indent(dedent(trainer), "  "), runtime__yaml=self.RUNTIME)
        assert told(run, *MACHINES, *LAUNCH) == (3, 8, "H200-SXM-141GB", "torchrun", 3, 8, 24)
        assert run.launch is not None and run.launch.argv[1].text == "other.py"

    def test_of_a_runtime_that_is_not_here_the_nodes_are_unknown(self, tmp_path: Path) -> None:
        run = run_in(tmp_path, dedent(self.JOB) + "  trainer: {command: [torchrun, train.py]}\n")
        nodes = run.plan.get("cluster.nodes")
        assert isinstance(nodes, Unknown)
        assert nodes.reason == "numNodes is not written, and torch-distributed is not among the files"


class TestOtherJobs:
    def test_an_mpi_job_starts_a_process_on_each_slot(self, tmp_path: Path) -> None:
        text = """\
            apiVersion: kubeflow.org/v2beta1
            kind: MPIJob
            metadata: {name: tune}
            spec:
              slotsPerWorker: 8
              mpiReplicaSpecs:
                Launcher:
                  replicas: 1
                  template:
                    spec:
                      containers: [{name: launcher, command: [mpirun, python, train.py]}]
                Worker:
                  replicas: 2
                  template:
                    spec:
                      containers: [{name: worker, resources: {limits: {nvidia.com/gpu: 8}}}]
            """
        run = run_in(tmp_path, text)
        assert told(run, *MACHINES[:2], *LAUNCH) == (2, 8, "mpi", 2, 8, 16)

    MPI_JOB = """\
        apiVersion: kubeflow.org/v2beta1
        kind: MPIJob
        metadata: {name: tune}
        spec:
          SLOTS
          mpiReplicaSpecs:
            Launcher:
              template:
                spec:
                  containers: [{name: launcher, command: [mpirun, ARGS, python, train.py]}]
            Worker:
              replicas: 2
              template:
                spec:
                  containers: [{name: worker, resources: {limits: {nvidia.com/gpu: 4}}}]
        """
    ENGINE = """\
        import deepspeed
        from net import Net, args, batches

        engine, *_ = deepspeed.initialize(args=args, model=Net(), config="ds.json")
        for batch in batches:
            engine.backward(engine(batch))
            engine.step()
        """
    DS = '{"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 1, "overlap_comm": true}}'
    WRAPPED = """\
        import os
        import torch
        from torch.nn.parallel import DistributedDataParallel
        from net import Net, batches

        local = int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"])
        torch.distributed.init_process_group("nccl")
        model = DistributedDataParallel(Net().cuda(local), device_ids=[local])
        for batch in batches:
            model(batch).backward()
        """
    SPREAD = """\
        import torch
        from net import Pipeline, batches

        model = Pipeline(devices=range(torch.cuda.device_count()))
        for batch in batches:
            model(batch).backward()
        """

    @pytest.mark.parametrize(
        ("slots", "words", "program", "idle"),
        [
            ("slotsPerWorker: 1", "-bind-to, none", ENGINE, "mpirun starts 1 process a node on 4 GPUs: 3 of 4 idle, 6 of 8 in all"),
            ("runPolicy: {}", "-bind-to, none", ENGINE, "mpirun starts 1 process a node on 4 GPUs: 3 of 4 idle, 6 of 8 in all"),
            ("slotsPerWorker: 4", "-np, '2', --npernode, '1'", ENGINE, "mpirun starts 1 process a node on 4 GPUs: 3 of 4 idle, 6 of 8 in all"),
            ("slotsPerWorker: 2", "-bind-to, none", ENGINE, "mpirun starts 2 processes a node on 4 GPUs: 2 of 4 idle, 4 of 8 in all"),
            ("slotsPerWorker: 1", "-bind-to, none", WRAPPED, "mpirun starts 1 process a node on 4 GPUs: 3 of 4 idle, 6 of 8 in all"),
            ("slotsPerWorker: 4", "-bind-to, none", ENGINE, None),
            ("slotsPerWorker: 1", "-bind-to, none", SPREAD, None),
        ],
    )  # fmt: skip
    def test_slots_without_a_process_for_each_gpu(
        self, tmp_path: Path, slots: str, words: str, program: str, idle: str | None
    ) -> None:
        text = dedent(self.MPI_JOB).replace("SLOTS", slots).replace("ARGS", words)
        for name, content in (("job.yaml", text), ("train.py", dedent(program)), ("ds.json", self.DS)):
            (tmp_path / name).write_text(content, encoding="utf-8")
        report = check([tmp_path / "job.yaml"])
        found = [each.message for each in report.findings if each.rule == "idle-gpus"]
        assert found == ([] if idle is None else [idle])

    def test_the_pods_of_a_job_set_are_replicas_times_what_runs_side_by_side(self, tmp_path: Path) -> None:
        text = """\
            apiVersion: jobset.x-k8s.io/v1alpha2
            kind: JobSet
            metadata: {name: tune}
            spec:
              replicatedJobs:
                - name: workers
                  replicas: 2
                  template:
                    spec:
                      parallelism: 4
                      completions: 4
                      template:
                        spec:
                          containers:
                            - name: main
                              command: [torchrun, --nproc_per_node=8, train.py]
                              resources: {limits: {nvidia.com/gpu: 8}}
            """
        assert told(run_in(tmp_path, text), *MACHINES[:2]) == (8, 8)

    def test_volcanos_plug_in_tells_the_pods_where_to_meet(self, tmp_path: Path) -> None:
        text = """\
            apiVersion: batch.volcano.sh/v1alpha1
            kind: Job
            metadata: {name: tune}
            spec:
              plugins: {pytorch: ["--master=head", "--port=29500"]}
              tasks:
                - name: head
                  replicas: 1
                  template: &pod
                    spec:
                      containers:
                        - name: main
                          command: [bash, -c, "torchrun --nnodes 4 --nproc_per_node 8 --rdzv_backend c10d --rdzv_endpoint $MASTER_ADDR:$MASTER_PORT train.py"]
                          resources: {limits: {nvidia.com/gpu: 8}}
                - name: worker
                  replicas: 3
                  template: *pod
            """
        run = run_in(tmp_path, text)
        assert told(run, *MACHINES[:2], "launch.rendezvous_host") == (4, 8, "tune-head-0.tune")

    def test_a_ray_job_runs_on_all_groups_with_gpus(self, tmp_path: Path) -> None:
        text = """\
            apiVersion: ray.io/v1
            kind: RayJob
            metadata: {name: tune}
            spec:
              entrypoint: python3 -m verl.trainer.main_ppo trainer.nnodes=2 trainer.n_gpus_per_node=8
              rayClusterSpec:
                headGroupSpec:
                  template: {spec: {containers: [{name: head}]}}
                workerGroupSpecs:
                  - replicas: 2
                    template: {spec: {containers: [{name: worker, resources: {limits: {nvidia.com/gpu: 8}}}]}}
            """
        (run, *_) = runs_in(tmp_path, text).runs
        assert told(run, *MACHINES[:2], "launch.nodes") == (2, 8, 2)


class TestFiles:
    def test_the_kind_of_the_file_is_listed(self, tmp_path: Path) -> None:
        runs = runs_in(tmp_path, pytorch_job("[torchrun, train.py]"))
        assert "pytorch-job" in files_text(runs).split("\t")[1]

    def test_a_chart_that_is_no_yaml_says_nothing(self, tmp_path: Path) -> None:
        text = "{{- if .Values.on }}\n" + pytorch_job("[torchrun, train.py]") + "{{- end }}\n"
        runs = runs_in(tmp_path, text)
        assert (runs.runs, runs.problems) == ((), ())

    def test_another_manifest_starts_nothing(self, tmp_path: Path) -> None:
        runs = runs_in(tmp_path, "apiVersion: v1\nkind: Service\nmetadata: {name: torchrun}\n")
        assert (runs.runs, runs.problems) == ((), ())

    @pytest.mark.parametrize(
        "text",
        [
            "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\n",
            "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec: []\n",
            "apiVersion: batch/v1\nkind: Job\nspec: {template: {spec: {containers: text}}}\n",
            "apiVersion: v1\nkind: Pod\nspec: {containers: [{command: [[a]]}, {command: [null, 1, true]}, 3]}\n",
            "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nspec: {trainer: {env: [{}], numNodes: x}}\n",
            "apiVersion: ray.io/v1\nkind: RayJob\nspec: {entrypoint: {}, rayClusterSpec: 3}\n",
            "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nspec: {mpiReplicaSpecs: {Launcher: 3}}\n",
        ],
    )
    def test_manifests_of_no_sense_are_no_crash(self, tmp_path: Path, text: str) -> None:
        assert runs_in(tmp_path, text).runs == ()

    def test_a_manifest_that_names_a_config_launches_it(self, tmp_path: Path) -> None:
        (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 2}}', encoding="utf-8")
        (tmp_path / "job.yaml").write_text(
            pytorch_job('[deepspeed, train.py, --deepspeed, "--deepspeed_config=ds.json"]'), encoding="utf-8"
        )
        (run,) = read_runs([tmp_path / "ds.json"], Options()).runs
        assert told(run, "cluster.nodes", "sharding.stage") == (4, 2)


WORDS = st.lists(st.text("abc8=,./-", min_size=1, max_size=9), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(WORDS, st.sampled_from(["list", "|", ">", '"', "'"]), st.integers(2, 6))
def test_every_word_of_a_launch_knows_where_it_stands(words: list[str], style: str, depth: int) -> None:
    """In whatever form YAML has it, a word's place in the file holds the word."""
    import tempfile

    command = ["torchrun", "train.py", *words]
    written = command if style == "list" else ["bash", "-c", " ".join(command) + "\n"]
    tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {"containers": [{"name": "main", "command": written}]},
    }
    text = yaml.dump(tree, default_style=None if style == "list" else style, indent=depth, width=30)
    with tempfile.TemporaryDirectory() as folder:
        run = run_in(Path(folder), text)
    assert run.launch is not None
    assert [word.text for word in run.launch.argv] == command
    pieces = [piece for word in run.launch.argv for piece in word.pieces]
    assert all(piece.span.original().text == piece.text for piece in pieces)


@pytest.mark.parametrize(
    ("resource", "told"), [("rdma/ib", True), ("nvidia.com/hostdev", True), ("vpc.amazonaws.com/efa", False)]
)
def test_adapters_that_a_pod_asks_for(tmp_path: Path, resource: str, told: bool) -> None:
    text = pytorch_job('[torchrun, "--nnodes=4", train.py]').replace("gpu: 8}", f"gpu: 8, {resource}: 1}}")
    assert [bool(run.plan.collection("cluster.adapters")) for run in runs_in(tmp_path, text).runs] == [told]
