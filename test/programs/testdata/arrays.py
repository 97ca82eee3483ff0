# A75, B82, piston#662: numpy with its threads.
import numpy

a = numpy.arange(250000, dtype=float).reshape(500, 500)
print("matmul", int((a @ numpy.eye(500)).sum()))
print("solve", numpy.allclose(numpy.linalg.solve(a + 1e6 * numpy.eye(500), a.sum(axis=1)) @ a, numpy.linalg.solve(a + 1e6 * numpy.eye(500), a.sum(axis=1)) @ a))
