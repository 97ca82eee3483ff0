# A75: numpy with the threads of its BLAS.
import numpy

a = numpy.ones((500, 500))
print(numpy.__name__, (a @ a).sum())
print(round(float(numpy.linalg.eigvalsh(numpy.diag([3.0, 1.0, 2.0]))[-1]), 6))
