// SPDX-License-Identifier: BSD-3-Clause
//
// The matrix product, through xtensor-blas's wrapper of CBLAS, into memory that the caller reuses; and who decides how
// many threads the BLAS uses.
#pragma once

// xtensor-blas's headers include neither of these, though they need them.
#include <complex>
#include <type_traits>

#include <normplace/detail/xtensor.hpp>

#include <xtensor-blas/xblas_config.hpp>
// After the configuration, which selects CBLAS.
#include <xflens/cxxblas/cxxblas.cxx>

#include <limits>
#include <mutex>
#include <stdexcept>
#include <string>

#ifdef _OPENMP
#include <omp.h>
#endif

// OpenBLAS's own switches, when it is OpenBLAS that is linked.
extern "C" {
#if defined(__GNUC__) && !defined(__APPLE__) && !defined(_WIN32)
__attribute__((weak)) void openblas_set_num_threads(int);
__attribute__((weak)) int openblas_get_num_threads(void);
__attribute__((weak)) int openblas_get_parallel(void);
#define NORMPLACE_HAS_OPENBLAS_SWITCH 1
#endif
}

namespace normplace::detail {

enum class Transposed : bool { no, yes };

inline int blas_size(std::size_t size) {
    if (size > static_cast<std::size_t>(std::numeric_limits<int>::max()))
        throw std::invalid_argument("gemm: size " + std::to_string(size) + " exceeds what a BLAS index holds");
    return static_cast<int>(size);
}

/// C (m, n) = alpha op(A) (m, k) op(B) (k, n) + beta C, all row-major with the given leading dimensions.
/// Alpha and beta have the data's type and the index is int: anything else falls, without a word, into a generic
/// product that is seventy times slower.
template <class T>
void gemm(Transposed transposed_a, Transposed transposed_b, std::size_t m, std::size_t n, std::size_t k, T alpha,
          const T* a, std::size_t lda, const T* b, std::size_t ldb, T beta, T* c, std::size_t ldc) {
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>, "normplace: the scalar is float or double.");
    if (m == 0 || n == 0) return;
    const auto operation = [](Transposed t) { return t == Transposed::yes ? cxxblas::Trans : cxxblas::NoTrans; };
    cxxblas::gemm<int>(cxxblas::RowMajor, operation(transposed_a), operation(transposed_b), blas_size(m), blas_size(n),
                       blas_size(k), alpha, a, blas_size(lda), b, blas_size(ldb), beta, c, blas_size(ldc));
}

/// What an (m, n, k) product is worth in the scalar operations of parallel.hpp.
inline double product_work(std::size_t m, std::size_t n, std::size_t k) {
    return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / 8.0;
}

/// While any of these lives, an OpenBLAS with threads of its own runs on the caller's thread alone: this library is
/// parallel around its products, which is faster (rows, heads and seeds need no meeting), and two sets of threads that
/// both wait by spinning take each other's cores. The last one to go restores the number of threads. An OpenBLAS built
/// with OpenMP needs none of it: inside a parallel loop it stays on one thread by itself, and being told would set
/// OpenMP's own number. Without OpenMP nothing happens: the BLAS's threads are then the only ones.
class SingleThreadedBlas {
public:
    SingleThreadedBlas() {
        if (!has_threads_of_its_own()) return;
        const std::lock_guard lock(state().mutex);
        if (state().count++ > 0) return;
        state().threads_before = threads();
        set_threads(1);
    }
    ~SingleThreadedBlas() {
        if (!has_threads_of_its_own()) return;
        const std::lock_guard lock(state().mutex);
        if (--state().count == 0) set_threads(state().threads_before);
    }
    SingleThreadedBlas(const SingleThreadedBlas&) = delete;
    SingleThreadedBlas& operator=(const SingleThreadedBlas&) = delete;

private:
    struct State {
        std::mutex mutex;
        std::size_t count = 0;
        int threads_before = 1;
    };
    static State& state() {
        static State shared;
        return shared;
    }
#if defined(NORMPLACE_HAS_OPENBLAS_SWITCH) && defined(_OPENMP)
    static bool has_threads_of_its_own() {
        constexpr int pthreads = 1;  // a static library may come without openblas_get_parallel
        static const bool has = openblas_set_num_threads && openblas_get_num_threads &&
                                (!openblas_get_parallel || openblas_get_parallel() == pthreads);
        return has;
    }
    static int threads() { return openblas_get_num_threads(); }
    static void set_threads(int count) {
        if (count == threads()) return;
        const int openmp = omp_get_max_threads();
        openblas_set_num_threads(count);
        omp_set_num_threads(openmp);
    }
#else
    static bool has_threads_of_its_own() { return false; }
    static int threads() { return 1; }
    static void set_threads(int) {}
#endif
};

}  // namespace normplace::detail
