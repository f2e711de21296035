"""Extended resources that stand for CPU and memory which others leave idle: by what name they are
asked for, and what an amount of them counts."""

#: Crane's. In a manifest CPU is counted in cores, as `cpu` is: "2", "500m".
ELASTIC_CPU, ELASTIC_MEMORY = "gocrane.io/cpu", "gocrane.io/memory"
#: Volcano's and Koordinator's. In a manifest CPU is counted in whole milliCPU.
BATCH_CPU, BATCH_MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"
