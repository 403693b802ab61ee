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
#include <stdexcept>
#include <string>

// OpenBLAS's own switch, when it is OpenBLAS that is linked.
extern "C" {
#if defined(__GNUC__) && !defined(__APPLE__) && !defined(_WIN32)
__attribute__((weak)) void openblas_set_num_threads(int);
__attribute__((weak)) int openblas_get_num_threads(void);
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

/// While it lives, the BLAS runs on one thread: for code that is parallel itself. Not to be nested across threads; make
/// it before the threads start.
class SingleThreadedBlas {
public:
    SingleThreadedBlas() {
#ifdef NORMPLACE_HAS_OPENBLAS_SWITCH
        if (openblas_get_num_threads && openblas_set_num_threads) {
            before_ = openblas_get_num_threads();
            if (before_ > 1) openblas_set_num_threads(1);
        }
#endif
    }
    ~SingleThreadedBlas() {
#ifdef NORMPLACE_HAS_OPENBLAS_SWITCH
        if (before_ > 1) openblas_set_num_threads(before_);
#endif
    }
    SingleThreadedBlas(const SingleThreadedBlas&) = delete;
    SingleThreadedBlas& operator=(const SingleThreadedBlas&) = delete;

private:
    int before_ = 0;
};

}  // namespace normplace::detail
